//! A plugin's only way out: which hosts and addresses it may reach.
