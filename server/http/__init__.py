"""HTTP/1.1 as it is needed here, from stamps, limits and tokens to texts of metrics."""
