"""The loops: each reads what the API shows, decides, acts, and tells. They meet through API objects only."""
