"""Small projects, and stages of builds and executors whose results are known."""
