"""From a committed transaction to events with replay ids: change events, platform events, the bus that keeps them."""
