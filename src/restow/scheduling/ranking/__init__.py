"""Ranking: the best node for a pod, at the cost of the rows that changed since the last pod of its class.

A *row* is the place of a node in the arrays of the snapshot. A *class* of pods is all that are equal in what plugins of
NODE and ROW reach read. For each class and set of active plugins there is one `Ranking`: an integer key per row,

    key = (weighted sum of scores, then the place in name order: first is largest), or REFUSED

so that the largest key is the best node, and ties are broken by name. Which cache applies when:

    cache             module            keeps                                    renewed when
    skip cache        skip_cache        per class: the plugins that PreFilter    a Node or an affinity term
                                        or PreScore skipped                      changes
    ranking           ranking           per class: the key of every row          a row changes: its key alone
    score cache       score_cache       per class and state of room: the sum     a new state of room appears
                                        of scores of the `RoomOnly` plugins
    key blocks        key_blocks        the largest key of every 128 rows        a key of the block changes
    queue ranking     queue_ranking     one ranking for classes that differ in   like a ranking
                                        their queue alone, while nodes are
                                        locked for queues
    mask cache        mask_cache        the keys of rows that domain filters     a domain's result or a key
                                        accept, if each node is its own domain   changes
    topology buckets  topology_buckets  the best key of the rows that share      a key of the bucket changes
                                        all topology domains
    class state       class_state       what a plugin worked out for a class     the plugin decides

`rankings` holds all of them for an engine and says which is tried first; `selection` compares rows together where the
answer about one row depends on others. No cache changes a placement: each only saves asking again. The plugins that
make use of them opt in through `scheduling.accelerated`.
"""
