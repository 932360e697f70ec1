"""Leader and followers of one partition, pure: valid appends, the high watermark, the ISR."""
