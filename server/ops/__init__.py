"""The server's process: sockets, signals, workers, log and watched files."""
