	# No .note.GNU-stack section: the linker then makes the stack executable.
	.text
	.globl from_assembly
	.hidden from_assembly
	.type from_assembly, %function
from_assembly:
	ret
	.size from_assembly, .-from_assembly
