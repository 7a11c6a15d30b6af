"""Adopting: store the conversations that agents keep on this machine before they delete them."""
