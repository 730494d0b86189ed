/* embed.S - a file's bytes as they are, between two names: RT_EMBED_NAME and RT_EMBED_NAME_end.
 *
 * Assembled once for every file of EMBED_SRCS (see the Makefile), with RT_EMBED_FILE and RT_EMBED_NAME defined. Works
 * for every architecture, since nothing of it is run while building. */
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define END JOIN(RT_EMBED_NAME, _end)

    .section .rodata
    .balign 16
    .globl RT_EMBED_NAME
    .hidden RT_EMBED_NAME
RT_EMBED_NAME:
    .incbin RT_EMBED_FILE
    .globl END
    .hidden END
END:
    .byte 0

    .section .note.GNU-stack, "", %progbits
