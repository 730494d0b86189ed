/* version.h - what this binary is. RT_BUILD_ID comes from the Makefile: `git describe` of the tree it was built from,
 * or "unknown" where there is none. */
#ifndef RT_CLI_VERSION_H
#define RT_CLI_VERSION_H

#define RT_VERSION "0.1.0"
#ifndef RT_BUILD_ID
#define RT_BUILD_ID "unknown"
#endif

#endif
