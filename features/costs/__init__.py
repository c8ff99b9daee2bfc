"""What features cost: timing them, and fitting polynomials of sizes to the times."""
