"""Where the operator touches the world. One importer each: kopf (handlers), kubernetes (kube), httpx (driver)."""
