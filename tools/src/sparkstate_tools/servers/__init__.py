"""Servers that are started beside a job: S3, Kafka, and a proxy that breaks requests to them."""
