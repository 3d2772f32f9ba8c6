"""The periodic jobs of the Kubernetes project."""
