"""Restow packs Kubernetes clusters safely: every pod has its new seat before it leaves the old one."""

__version__ = "0.1.0"
