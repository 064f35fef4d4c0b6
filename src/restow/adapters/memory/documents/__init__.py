"""Document algebra of the embedded API server: what a JSON document of some kind means, apart from any storage.

`merging` knows the fields of every built-in kind and how its lists merge; `typed` reads a document as its kind;
`patching` and `apply` compute the next document; `defaulting` and `validation` are upstream's rules for built-ins;
`schema` the same for custom resources. Everything here is a function of documents: no clock, no store, no randomness.
"""
