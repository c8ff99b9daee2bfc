"""Sums of trees, evaluated a row or a batch at a time.

Trees are stored as nodes. When a model is loaded, `choose_layout.pack` also packs the
trees in the fastest layouts that the model and the processor allow. Each call uses the
best layout for its rows; all layouts give the same bits.

============================  =======================  =================================
layout                        evaluates                is chosen for
============================  =======================  =================================
`nodes.py`, by                a row, node by node      category splits; rows that
`kernels/walk.py`                                      float32 would round; no compiled
                                                       kernels; trees of more than
                                                       65,536 nodes
`one_row.py`                  a row, six trees at a    float32 rows, on every processor
                              time, 64 bits a node
`one_row_vectors.py`          a row, 64 trees at a     float32 rows, trees of a depth
                              time, in the lanes of    of 8 or less, processors with
                              a vector                 AVX-512 VBMI
`many_rows.py`                512 rows at a time,      whole sums of 24 rows or more
                              a test for all of them   (96 beside vectors), of trees of
                                                       at most 256 leaves
============================  =======================  =================================

Each layout has its kernels in the module of the same name under `kernels/`.
"""
