"""Real Kubernetes on this machine: control plane, nodes, and the way to their API."""
