"""The tables of event channels, kept: notifications folded into what is known of each record, compared with the org,
typed again and explained."""
