"""Post-processors of paragraphs (`harness.ports.PostProcessor`), in linear time."""
