"""From a Work to the object in its member and back: delivery, ownership, removal, and the reported status."""
