"""The server's process: sockets, signals, workers, watched files and logs."""
