"""Servers that are started beside a job: S3, Kafka, a registry of images, and a proxy that breaks requests."""
