"""What is written once over the Api port: typed verbs, informers, work queue, leader election, event recording."""
