from support.storage.fixtures import root, s3, s3_server, without_flushing

__all__ = ["root", "s3", "s3_server", "without_flushing"]
