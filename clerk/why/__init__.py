"""Why a site is where it is: facts from one snapshot of the database, and one causal sentence made of them."""
