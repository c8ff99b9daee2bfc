"""An index judged on labelled items, beside what answers without one."""
