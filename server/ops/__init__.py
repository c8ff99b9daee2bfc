"""The process: sockets, signals, workers, watched files, logs."""
