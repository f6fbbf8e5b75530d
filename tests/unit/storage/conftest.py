from support.storage.fixtures import any_root, root, s3, s3_server, without_flushing

__all__ = ["any_root", "root", "s3", "s3_server", "without_flushing"]
