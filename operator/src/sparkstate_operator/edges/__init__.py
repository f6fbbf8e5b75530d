"""Where the operator touches the world: kopf in `handlers`, the Kubernetes client in `kube`, aiohttp in all of them."""
