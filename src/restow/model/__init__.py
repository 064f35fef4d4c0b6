"""The nouns: quantities, selectors, typed API objects and how they travel. Pure: no clock, network or randomness."""
