"""The dialect of Open Cluster Management: which clusters a Placement is answered with."""
