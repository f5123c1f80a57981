"""An open lake and its tables, as users see them."""
