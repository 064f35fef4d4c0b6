"""A cluster in a file, or listed once: `capture` lists it, `anonymiser` hides its names, `offline` and `explanation`
answer where its pods would go."""
