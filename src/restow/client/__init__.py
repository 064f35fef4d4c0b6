"""The Kubernetes client over the Api port: typed verbs, informers, work queue, leader election, event recorder."""
