"""Where the time of an epoch goes, over all processes of a job. The room knows nothing of how a job is started."""
