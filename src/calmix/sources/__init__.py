"""Files of published data sets, without torch: where they are, whether they are whole, how to get them."""
