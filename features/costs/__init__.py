"""What features cost: timing them, fitting curves to the times, polynomials of sizes."""
