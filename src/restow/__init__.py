"""Restow packs Kubernetes clusters safely: every pod has its new seat before it leaves the old one."""
