"""The commands of `memattn-prepare`, by kind of data: their flags, and the calls of memattn.data that do the work."""
