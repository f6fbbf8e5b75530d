"""State on this disk that outlives its slot, and what a later slot may take of it (Flink's local recovery, RFC 0011).

::

    slots/                                the base: the same for all slots of a driver or an executor
        3-0/                              slot 0 of incarnation 3, which lives
            db/shard-00007/               a shard's store
            db/shard-00007.proven         which of its files are known to be right       verified_files
            kept/12/shard-00007/          links to the files of checkpoint 12            local_copy
            download/shard-00007/         what a restore has so far
        2-0.left/                         a slot that is gone: of the above, what is there    inheritance
        slot-0-2.log                      a slot's log, which is nobody's state

RocksDB's files never change once they are written. So a restore links what its checkpoint refers to instead of
downloading it (``reuse``). A file is taken for what the checkpoint names if a slot has noted its checksum and nobody
has written to it since, or if its SHA-256 says so; else it is downloaded (``checkpoint.downloader``).

The names on the disk (``kept``, ``.left``, ``.proven``) are those that older versions wrote: a volume may outlive the
pod, and with it the image. Nothing here knows a slot's process, its protocol or its operators.
"""
