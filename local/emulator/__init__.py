"""The emulated AWS of the local default: ministack, extended in process."""
