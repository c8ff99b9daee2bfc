"""Sums of trees, evaluated for one row or for many rows at a time.

Trees are stored as nodes. When a model is loaded, `choose_layout.pack` also lays its
trees out for the fastest kernels that the model and the processor allow. Each call
uses the fastest layout for its number of rows. All layouts give the same bits.

============================  =======================  =================================
layout                        evaluates                is used for
============================  =======================  =================================
`nodes.py`, by                one row, node by node    category splits; trees of more
`kernels/walk.py`                                      than 65,536 nodes; float64 values
                                                       that float32 would round;
                                                       processes without a compiler
`one_row.py`                  one row, six trees at a  float32 rows, on every processor
                              time, 64 bits a node
`one_row_vectors.py`          one row, 64 trees at a   float32 rows, if trees have a
                              time, each in a lane of  depth of 8 or less and the
                              a vector                 processor has AVX-512 VBMI
`many_rows.py`                512 rows at a time,      24 rows or more (96 or more if
                              one test of a tree for   `one_row_vectors.py` is possible)
                              all rows                 without early exits, if trees
                                                       have at most 256 leaves
============================  =======================  =================================

Each layout has its kernels in the module of the same name under `kernels/`.
"""
