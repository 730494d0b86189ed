# The table of settings, YAML, the names that other tools have for them.
LIB_SRCS += $(call files_of,src/settings)
USES += yaml
