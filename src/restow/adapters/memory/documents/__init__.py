"""What a JSON document of some kind means to an API server, apart from any storage.

`merge_types` knows the fields of every built-in kind and how its lists merge; `typed_documents` reads a document as its
kind; `patching` and `server_side_apply` compute the next document; `defaulting` and `validation` are upstream's rules
for built-ins, `schema` has those of custom resources. All of them are functions of documents: no clock, no store, no
randomness.
"""
