"""Programs and jars that are found on the machine, or fetched and built once into the user's cache."""
