"""The operator as a process on a cluster without nodes, where kubelet and drivers are played."""
