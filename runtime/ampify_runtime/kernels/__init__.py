"""The fused kernels: CUDA C++ sources, what compiles and launches them, and the operations that the runtime calls."""
