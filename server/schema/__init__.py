"""What goes over the wire: structures, nothing else."""
