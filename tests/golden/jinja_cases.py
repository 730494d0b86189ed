"""jinja_cases.py - the templates of tests/golden/jinja.json: small ones for each feature, and chat templates.

cases() gives (name, template, variables). What jinja2 makes of them is worked out by tools/gen_jinja_golden.py.
"""
import os
import random
import struct

HERE = os.path.dirname(os.path.abspath(__file__))

VALUES = {
    "s": "hello World", "u": "Straße ΑΣ ünï ǆ", "pad": " \t x y \n", "n": 7, "neg": -7, "f": 2.5, "big": 1e16, "t": True, "nil": None,
    "xs": [3, 1, 2], "words": ["pear", "Apple", "fig", "apple"], "d": {"b": 1, "a": [1, 2], "C": {"x": "y"}, "items": "key"},
    "rows": [{"name": "Zed", "age": 3, "tags": ["q"]}, {"name": "amy", "age": 1}, {"name": "Bob", "age": 3, "tags": []}],
    "html": "<a href=\"x\">'&'</a>", "control": "a\u0000\u0007\u001f\u007f\u2028\u200bé\U0001f600\\\"'",
}

# One expression each; the name of the case is the expression.
EXPRESSIONS = r"""
1 + 2 * 3 - 4 // 3 % 2
2 ** 3 ** 2
-2 ** 2
7 / 2 ~ 7 // 2 ~ -7 // 2 ~ 7 % -3 ~ -7 % 3
7.5 // 2 ~ '|' ~ -7.5 % 2 ~ '|' ~ 7.5 % -2
1e16 ~ '|' ~ 1e15 ~ '|' ~ 0.1 + 0.2 ~ '|' ~ 1e-5 ~ '|' ~ 0.0001 ~ '|' ~ 1.5e300 * 1e10
big ~ '|' ~ 123456789012345680.0 ~ '|' ~ 5e-324 ~ '|' ~ 9007199254740993.0 ~ '|' ~ -0.0
1_000 + 0x_ff + 0b101 + 0o17
1 / 0
n // 0
n % 0.0
0 ** -1
2 ** -2
9223372036854775807
'a' 'b' "c"
'a\tb\nc\\d\'e\x41\u00e9\101\q'
'a' + 1
'ab' * 3 ~ 2 * 'x' ~ 'y' * -1
[1, 2] * 2 + [3]
(1, 2) + (3,)
[1] + (2,)
'%s is %d and %5.2f|%-5s|%05d|%x|%%' % ('a', 7, 2.5, 'b', 42, 255)
'%(a)s-%(b)r' % {'a': 1, 'b': 'x'}
'%s' % [1, 2]
'%s %s' % (1,)
'x' % 1
'{} {1}'.format(1, 2)
'{0}-{1}-{0}|{a}|{a[0]}|{d.b}|{{}}'.format(1, 2, a=xs, d=d)
'{:>6}|{:<6}|{:^6}|{:06.2f}|{:,}|{:+d}|{:x}|{!r}|{:.2%}'.format('a', 'b', 'c', 2.5, 1234567, 5, 255, 'q', 0.5)
'{}'.format()
not true or false and none
nil or 'x' and 0 or []
1 < 2 < 3 > 2 == 2 != 1
1 < 3 < 2
1 == 1.0 and true == 1 and 'a' != 1
[1, 'a', none] == [1, 'a', None]
{'a': 1, 'b': 2} == {'b': 2, 'a': 1}
'b' in 'abc' and 'x' not in 'abc' and 2 in [1, 2] and 'a' in d
1 in 'abc'
none in none
'a' < 'b' and 'B' < 'a' and [1, 2] < [1, 3]
1 < 'a'
nil < 1
'yes' if n > 3 else 'no'
'yes' if n < 3
(missing if false).x
s[0] ~ s[-1] ~ s[2:5] ~ s[::-1] ~ s[-3:] ~ s[:2] ~ s[1:9:3] ~ s[9:1:-3]
u[5:8] ~ '|' ~ u[-3:] ~ '|' ~ u[::-1] ~ '|' ~ u|length
xs[0] ~ xs[-1] ~ xs[1:] ~ xs[::-1] ~ xs[5:] ~ xs[:-1]
xs[10] ~ '|' ~ xs['a'] ~ '|' ~ nil[0] ~ '|' ~ n[0]
()[4:-1] ~ [][1:] ~ ''[1:] ~ [][::-1] ~ ''[::-1]
xs[::0]
nil[1:]
d.b ~ d['a'] ~ d.C.x ~ d['C']['x'] ~ d.missing ~ d['missing']
d.items is callable ~ '|' ~ d['items']
xs.0 ~ xs.2
d.missing.deeper
missing
missing.x
missing[0]
missing + 1
missing()
missing ~ 'x' ~ [missing]
missing == other ~ '|' ~ (missing == none) ~ '|' ~ (missing in [1])
s.upper() ~ s.lower() ~ s.title() ~ s.capitalize() ~ s.swapcase()
u.upper() ~ '|' ~ u.lower() ~ '|' ~ u.title() ~ '|' ~ u.capitalize() ~ '|' ~ u.casefold() ~ '|' ~ u.swapcase()
'[' ~ pad.strip() ~ '][' ~ pad.lstrip() ~ '][' ~ pad.rstrip() ~ '][' ~ 'xxaxx'.strip('x') ~ '][' ~ 'abcba'.strip('ab') ~ ']'
'a,b,,c'.split(',') ~ 'a,b,,c'.split(',', 1) ~ 'a,b,,c'.rsplit(',', 1) ~ ' a  b '.split() ~ ' a  b c'.split(none, 1) ~ 'a b c '.rsplit(None, 1)
'a,b'.split('')
'x\ny\r\nz\n'.splitlines() ~ 'x\ny\n'.splitlines(true) ~ ''.splitlines()
s.startswith('he') ~ s.startswith(('x', 'h')) ~ s.endswith('ld') ~ s.endswith('x') ~ s.startswith('l', 2) ~ s.startswith('')
s.startswith(1)
s.find('o') ~ s.find('o', 5) ~ s.find('z') ~ s.rfind('o') ~ s.count('l') ~ s.count('') ~ u.find('ß') ~ u.find('ünï') ~ s.index('W')
s.index('z')
s.replace('l', 'L') ~ s.replace('l', 'L', 1) ~ 'ab'.replace('', '-') ~ 'aaa'.replace('a', '')
'-'.join(['a', 'b']) ~ '-'.join('abc') ~ '-'.join([]) ~ '-'.join(d)
'-'.join([1])
s.partition(' ') ~ s.rpartition('o') ~ s.partition('zz') ~ s.rpartition('zz')
s.removeprefix('he') ~ s.removesuffix('ld') ~ s.removeprefix('x')
'7'.zfill(3) ~ '-7'.zfill(4) ~ 'a'.center(5, '*') ~ 'ab'.center(5, '*') ~ 'a'.ljust(3, '.') ~ 'a'.rjust(3) ~ 'a\tb'.expandtabs(4)
'12'.isdigit() ~ 'a1'.isalnum() ~ 'ab'.isalpha() ~ ' '.isspace() ~ 'Ab'.istitle() ~ 'AB'.isupper() ~ 'ab'.islower() ~ ''.isdigit() ~ '²'.isdigit() ~ '²'.isdecimal()
'a_1'.isidentifier() ~ 'é'.isascii() ~ 'a\n'.isprintable()
s.nosuch
s.encode()
d.keys() ~ d.values() ~ d.items() ~ d.get('b') ~ d.get('zz') ~ d.get('zz', 5) ~ d.copy()
d.pop('b')
xs.append(1)
xs.append is defined
xs.index(1) ~ xs.count(3) ~ xs.copy() ~ (1, 2, 1).count(1)
xs.index(9)
range(5)|list ~ range(2, 8, 3)|list ~ range(3, 0, -1)|list ~ range(3) ~ range(1, 9, 2)[1] ~ range(5)[1:3]
range(100001)
range(0, 5, 0)
dict(a=1, b=2) ~ dict([('x', 1)]) ~ dict({'q': 1}, r=2) ~ dict.fromkeys('ab', 0)
namespace(a=1) ~ namespace({'b': 2}).b
namespace(_a=1)
strftime_now('%d %b %Y %H:%M:%S %A %B %j %y %p %I %%')
strftime_now('%Y-%m-%dT%H:%M:%S.%f%z|%Z|%c|%x|%X|%-d|%e')
raise_exception('it went wrong')
'a'|upper ~ 'Ab'|lower ~ 'hello wORLD'|capitalize ~ 'hello-wORLD (foo) <bar x'|title
u|title ~ '|' ~ u|upper
'  x '|trim ~ '|' ~ 'xxaxx'|trim('x') ~ '|' ~ 5|trim
xs|length ~ s|count ~ d|length ~ u|length
5|length
xs|first ~ xs|last ~ s|first ~ s|last ~ d|first ~ d|last ~ []|first ~ []|last
[1, 2]|join ~ [1, none, 'a']|join('-') ~ rows|join(', ', attribute='name') ~ s|join('.')
none|join
xs|sort ~ xs|sort(reverse=true) ~ words|sort ~ words|sort(case_sensitive=true) ~ rows|sort(attribute='age')|map(attribute='name')|list
rows|sort(attribute='age,name')|map(attribute='name')|join
[1, 'a']|sort
xs|reverse|list ~ s|reverse ~ d|reverse|list
words|unique|list ~ words|unique(true)|list ~ rows|unique(attribute='age')|map(attribute='name')|list
xs|sum ~ rows|sum(attribute='age') ~ xs|sum(start=10) ~ [0.1, 0.2]|sum
xs|min ~ xs|max ~ words|min ~ words|max ~ rows|max(attribute='age') ~ []|min
xs|map('string')|list ~ words|map('upper')|list ~ rows|map(attribute='tags', default='none')|list ~ rows|map(attribute='tags.0')|list
xs|map('nosuch')|list
xs|map|list
xs|select('odd')|list ~ xs|reject('odd')|list ~ [0, 1, '', none, 'a']|select|list ~ xs|select('gt', 1)|list ~ xs|select('in', [1, 2])|list
rows|selectattr('tags')|map(attribute='name')|list ~ rows|rejectattr('tags')|map(attribute='name')|list
rows|selectattr('age', 'equalto', 3)|map(attribute='name')|list ~ rows|selectattr('tags', 'defined')|list|length
none|map('upper')|list ~ 0|select|list
xs|batch(2)|list ~ xs|batch(2, 'x')|list ~ range(7)|slice(3)|list ~ range(7)|slice(3, 'x')|list
rows|groupby('age') ~ rows|groupby('name')|map('first')|list
d|dictsort ~ d|dictsort(true) ~ {'a': 2, 'b': 1}|dictsort(false, 'value') ~ {'a': 1, 'b': 2}|dictsort(reverse=true)
d|items|list ~ missing|items|list
5|items|list
'12'|int ~ '3.9'|int ~ 'x'|int ~ 'x'|int(5) ~ 3.9|int ~ true|int ~ '0x1f'|int(0, 16) ~ '1_0'|int ~ ' 12 '|int ~ none|int ~ '-7'|int
missing|int
'1.5'|float ~ 'x'|float ~ 3|float ~ '1e3'|float ~ 'inf'|float ~ 'nan'|float ~ none|float(2.0)
-5|abs ~ 2.5|abs ~ (-2.5)|abs
'a'|abs
2.5|round ~ 3.5|round ~ 2.567|round(2) ~ 2.1|round(0, 'ceil') ~ 2.9|round(0, 'floor') ~ 1234|round(-2) ~ 5|round ~ 42.55|round(1) ~ 1250.0|round(-2)
missing|default('x') ~ nil|default('x') ~ nil|default('x', true) ~ ''|d('y', boolean=true) ~ missing|d ~ missing|default(default_value=1)
'a\nb\n\nc'|indent ~ '|' ~ 'a\nb'|indent(2, true) ~ '|' ~ 'a\n\nb'|indent(2, blank=true) ~ '|' ~ 'a\nb'|indent('> ')
'foo bar baz'|replace('ba', 'BA') ~ 'aaa'|replace('a', 'b', 2) ~ 15|replace(5, 6)
'the quick brown fox jumps'|truncate(12) ~ '|' ~ 'the quick brown fox'|truncate(9, true) ~ '|' ~ 'short'|truncate(9) ~ '|' ~ 'the quick brown'|truncate(11, false, '!', 0)
'a b-c d_e'|wordcount ~ 'x'|center(5) ~ '%s-%s'|format(1, 2) ~ '%(a)s'|format(a=3)
html|e ~ html|escape|e ~ html|forceescape ~ html|safe ~ (html|e|forceescape)
html|safe + '<b>' ~ '<i>' + html|e
'<i>' + (html|safe) + '</i>'
('<%s>'|safe) % html ~ ('<{}>'|safe).format(html) ~ ('<b>'|safe).join(['<', '>']) ~ (['<b>'|safe, 'x'])
d|tojson ~ xs|tojson ~ s|tojson ~ nil|tojson ~ t|tojson ~ f|tojson ~ ()|tojson ~ [{}, []]|tojson
control|tojson ~ control|tojson(ensure_ascii=true)
d|tojson(indent=2) ~ [[], {}, [1]]|tojson(indent=1) ~ xs|tojson(indent=0) ~ xs|tojson(indent='--')
d|tojson(sort_keys=true) ~ d|tojson(separators=(',', ':')) ~ d|tojson(indent=2, separators=(',', ' = '))
{1: 'a', none: 2, true: 3, 2.5: 4}|tojson
missing|tojson
range(3)|tojson
[control] ~ ["it's", 'say "hi"', "both ' and \""]
(1,) ~ () ~ [] ~ {} ~ {'a': (1, 2)} ~ [none, true, 1.0, 'x']
s|attr('upper') is callable ~ d|attr('b') ~ '|' ~ (d|attr('b') is defined)
s is string and n is number and n is integer and f is float and d is mapping and xs is sequence and s is iterable and t is boolean and t is true and nil is none
missing is undefined and missing is not defined and missing is sequence and missing is iterable and missing is callable
n is odd and 4 is even and 9 is divisibleby 3 and 9 is divisibleby(3) and 3 is eq 3 and 3 is ne(4) and 3 is lt 4 and 3 is ge 3 and 3 is in [1, 3]
'ab' is lower and 'AB' is upper and nil is sameas none and t is sameas true and not (1 is sameas true) and (html|e) is escaped
'upper' is filter and 'odd' is test and 'nosuch' is not filter
5 is divisibleby(0)
n is nosuch
s|nosuch
1 is odd is even
cycler('a', 'b').next() ~ joiner('|')() ~ joiner().sep
[x for x in xs]
s.upper(
s..x
{'a': 1
'a' if
1 +
(1, 2
'unended
s ! n
{[1]: 2}
{'a': 1, 'a': 2, 1: 'x', true: 'y', 1.0: 'z'}
f(*[1, 2], **{'a': 1})
dict(*[{'a': 1}], **{'b': 2}) ~ '%s%s'|format(*xs[:2])
dict(a=1, a=2)
lambda: 1
s|replace('h')
s|replace('h', 'j', 1, 2)
s.split(sep=' ') ~ s.split(' ', maxsplit=0) ~ s.split(nosuch=1)
"""

# Whole templates.
TEMPLATES = {
    "if elif else": "{% if n == 1 %}one{% elif n == 7 %}seven{% else %}other{% endif %}{% if nil %}x{% endif %}",
    "if with a tuple": "{% if nil, nil %}yes{% endif %}",
    "for": "{% for x in xs %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}:{{ x }} {% endfor %}",
    "for neighbours": "{% for x in xs %}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }} {% endfor %}",
    "for else": "{% for x in [] %}x{% else %}none{% endfor %}{% for x in missing %}x{% else %}undefined{% endfor %}",
    "for else after continue": "{% for x in xs %}{% continue %}{% else %}else{% endfor %}{% for x in xs %}{% break %}{% else %}else{% endfor %}",
    "for if": "{% for x in xs if x > 1 %}{{ loop.index }}/{{ loop.length }}:{{ x }}{{ loop.last }} {% else %}none{% endfor %}",
    "for if sees what the body did": "{% set ns = namespace(stop=false) %}{% for x in [1, 2, 3] if not ns.stop %}{{ x }}{% if x == 2 %}{% set ns.stop = true %}{% endif %}{% endfor %}",
    "for if sees the outer loop": "{% for x in xs %}{% for y in xs if loop.index0 != y %}{{ y }}{% endfor %} {% endfor %}",
    "for unpacking": "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}{% for a, (b, c) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %}",
    "for unpacking fails": "{% for a, b in [(1, 2, 3)] %}{% endfor %}",
    "for over kinds": "{% for c in 'aé' %}{{ c }}.{% endfor %}{% for k in d %}{{ k }}.{% endfor %}{% for i in range(3) %}{{ i }}{% endfor %}{% for x in xs|reverse %}{{ x }}{% endfor %}",
    "for over none": "{% for x in nil %}{% endfor %}",
    "for over a number": "{% for x in n %}{% endfor %}",
    "for recursive": "{% for x in xs recursive %}{% endfor %}",
    "for scopes": "{% set x = 'outer' %}{% for i in xs %}{{ x }}{% set x = i %}{{ x }} {% endfor %}{{ x }}",
    "for does not leak": "{% for i in xs %}{% set y = i %}{% endfor %}[{{ y }}][{{ i }}][{{ loop }}]",
    "break and continue": "{% for x in range(10) %}{% if x == 2 %}{% continue %}{% endif %}{% if x == 5 %}{% break %}{% endif %}{{ x }}{% endfor %}",
    "break outside": "{% break %}",
    "break in a macro": "{% for x in xs %}{% macro m() %}{% break %}{% endmacro %}{% endfor %}",
    "break in a block set": "{% for x in xs %}{% set y %}a{% break %}{% endset %}{{ y }}{% endfor %}done",
    "loop cycle and changed": "{% for x in [1, 1, 2] %}{{ loop.cycle('a', 'b') }}{{ loop.changed(x) }}{{ loop.depth }}{{ loop }} {% endfor %}",
    "loop called": "{% for x in xs %}{{ loop(x) }}{% endfor %}",
    "loop assigned": "{% for x in xs %}{% set loop = 1 %}{% endfor %}",
    "nested loops": "{% for x in xs %}{% for y in xs %}{{ loop.index }}{% endfor %}{{ loop.index }} {% endfor %}",
    "outer loop": "{% for x in xs %}{% set outer = loop %}{% for y in xs %}{{ outer.index }}.{{ loop.index }} {% endfor %}{% endfor %}",
    "generator is walked once": "{% set g = xs|map('string') %}{{ g|join }}|{{ g|join }}|{{ g is iterable }}",
    "loop length of a generator": "{% for x in xs|select('odd') %}{{ loop.length }}{{ loop.index }}{{ x }} {% endfor %}",
    "set": "{% set a = 1 %}{% set b, c = 2, [3] %}{% set (e, g) = (4, 5) %}{{ a }}{{ b }}{{ c }}{{ e }}{{ g }}",
    "set block": "{% set a %}x{{ n }}y{% endset %}[{{ a }}]{% set b | upper | trim %} q {% endset %}[{{ b }}]",
    "set block hides": "{% set s %}<{{ s }}>{% endset %}{{ s }}",
    "set hides later": "{% macro m() %}[{{ s }}]{% endmacro %}{{ m() }}{% set s = 1 %}{{ m() }}",
    "set in if": "{% if n %}{% set s = 'new' %}{% endif %}{{ s }}{% if not n %}{% set u = 'new' %}{% endif %}{{ u }}",
    "set constant": "{% set true = 1 %}",
    "set attribute": "{% set d.x = 1 %}",
    "set item": "{% set d['x'] = 1 %}",
    "set too many": "{% set a, b = 1 %}",
    "namespace": "{% set ns = namespace(n=0, found=false) %}{% for x in xs %}{% set ns.n = ns.n + x %}{% if x == 1 %}{% set ns.found = true %}{% endif %}{% endfor %}{{ ns.n }}{{ ns.found }}{{ ns }}{{ ns.missing }}",
    "namespace underscore": "{% set ns = namespace() %}{% set ns._x = 1 %}",
    "namespace in itself": "{% set ns = namespace() %}{% set ns.me = ns %}{% set ns.l = [ns, (ns.me,)] %}{{ ns.me.me.me is defined }}{{ ns }}{{ ns.l }}{{ ns.l[1] }}",
    "macro": "{% macro m(a, b=2, c=a) %}{{ a }}{{ b }}{{ c }};{% endmacro %}{{ m(1) }}{{ m(1, 5) }}{{ m(1, c=9) }}{{ m(a=3) }}{{ m() }}",
    "macro varargs": "{% macro m(a) %}{{ a }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, 3, x=4) }}{{ m.name }}{{ m.catch_kwargs }}{{ m.catch_varargs }}{{ m.caller }}{{ m }}",
    "macro too many": "{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}",
    "macro unknown keyword": "{% macro m(a) %}{% endmacro %}{{ m(b=2) }}",
    "macro call block": "{% macro m(t) %}<{{ t }}>{{ caller(5) }}</{{ t }}>{% endmacro %}{% call(x) m('b') %}{{ x }}{{ n }}{% endcall %}",
    "macro caller missing": "{% macro m() %}{{ caller is defined }}{% endmacro %}{{ m() }}",
    "macro caller unused": "{% macro m() %}{% endmacro %}{% call m() %}x{% endcall %}",
    "macro recursion": "{% macro f(n) %}{% if n > 0 %}{{ n }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(5) }}",
    "macro sees its place": "{% set x = 1 %}{% macro m() %}{{ x }}{% endmacro %}{% for x in [7] %}{{ m() }}{% endfor %}{% set x = 2 %}{{ m() }}",
    "macro default order": "{% macro m(a, b=c, c=3) %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ m(1) }}",
    "macro output is text": "{% macro m() %} x {% endmacro %}{{ m()|trim|upper }}{{ m() is string }}{{ m()|length }}",
    "macro duplicate argument": "{% macro m(a, a) %}{% endmacro %}",
    "filter block": "{% filter upper | replace('A', 'b') %}a{{ s }}{% endfilter %}",
    "with": "{% with a = 1, b = n %}{{ a }}{{ b }}{% endwith %}{{ a }}{% with %}x{% endwith %}",
    "with sees the outside": "{% set a = 1 %}{% with a = 2, b = a %}{{ a }}{{ b }}{% endwith %}{{ a }}",
    "raw": "{% raw %}{{ x }} {% y %} {# z #}{% endraw %}|{%- raw -%}  a  {%- endraw -%}  |",
    "raw unended": "{% raw %}x",
    "comments": "a{# b #}c{#- d -#}  e {#+ f +#}\n g{# {{ x }} #}",
    "comment unended": "a{# b",
    "comment unended at the end": "a{#",
    "raw unended at the end": "a{% raw %}",
    "trim and lstrip": "  {% if t %}\n    yes\n  {% endif %}\n  {{ n }}\n  {# c #}\n{% if t %}  \nx{% endif %}  \n\n",
    "signs": "a  {%- if t -%}  b  {%- endif -%}  c  {{- n -}}  d\n  {%+ if t %}e{% endif +%}\nf",
    "sign before a line": "x\n   {%- if t %}\n   y\n   {%- endif %}\nz",
    "plus keeps a newline": "{% if t +%}\nx{% endif +%}\ny",
    "lstrip only whole lines": "a {% if t %}b{% endif %}\n\t {% if t %}c{% endif %}",
    "carriage returns": "a\r\nb\rc\n{% if t %}\r\nd{% endif %}\r\n",
    "last newline": "x\n\n",
    "only newline": "\n",
    "empty": "",
    "braces in strings": "{{ '{{ }} %}' }}{{ {'a': {'b': 1}}.a.b }}{% set x = {'a': '%}'} %}{{ x.a }}",
    "print": "{% print n, s %}",
    "generation": "a{% generation %}b{{ s }}é{% endgeneration %}c{% for x in xs %}{% generation %}{{ x }}{% endgeneration %},{% endfor %}{% generation %}{% endgeneration %}",
    "generation scope": "{% set x = 1 %}{% generation %}{% set x = 2 %}{{ x }}{% endgeneration %}{{ x }}",
    "generation trims": "a\n  {% generation %}\n  b\n  {%- endgeneration -%}\n  c",
    "include": "{% include 'x' %}",
    "import": "{% import 'x' as y %}",
    "extends": "{% extends 'x' %}",
    "unknown tag": "{% nosuch %}",
    "unended if": "{% if t %}x",
    "misplaced end": "{% endif %}",
    "unended variable": "{{ n",
    "unended tag": "{% if n",
    "empty expression": "{{ }}",
    "unknown filter in if": "{% if nil %}{{ s|nosuch }}{% endif %}ok",
    "unknown filter reached in if": "{% if t %}{{ s|nosuch }}{% endif %}",
    "unknown filter in a loop in if": "{% if nil %}{% for x in xs %}{{ s|nosuch }}{% endfor %}{% endif %}ok",
    "unknown filter in an inline if": "{{ s|nosuch if nil else 'ok' }}{{ 'ok' if t else s|nosuch }}",
    "unknown test in if": "{% if nil %}{{ s is nosuch }}{% endif %}ok",
    "colon": "{% if t: %}x{% endif %}{% for x in xs: %}{{ x }}{% endfor %}",
    "string accumulates": "{% set ns = namespace(text='') %}{% for i in range(300) %}{% set ns.text = ns.text + 'ab' ~ i %}{% set q = ns.text + '!' %}{% endfor %}{{ ns.text|length }}{{ ns.text[-9:] }}",
    "unicode names": "{% set größe = 1 %}{{ größe }}",
    "joiner": "{% set j = joiner('|') %}{% for x in xs %}{{ j() }}{{ x }}{% endfor %}",
    "cycler": "{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}{{ c.next() }}{{ c.current }}{{ c.reset() }}{{ c.current }}",
    "call with a default": "{% macro m(x) %}{{ caller(x) if caller is defined else 'none' }}{% endmacro %}{% call(v, w=2) m(1) %}{{ v }}{{ w }}{% endcall %}",
}

# ---- conversations ---------------------------------------------------------------------------------------------------

WEATHER = {"type": "function", "function": {"name": "weather", "description": "Tells the weather.", "parameters": {
    "type": "object", "properties": {"city": {"type": "string", "description": "Straße ok"}, "days": {"type": "integer"}},
    "required": ["city"]}}}


def message(role, content, **more):
    return {"role": role, "content": content, **more}


def call(name, arguments):
    return {"id": "c1", "type": "function", "function": {"name": name, "arguments": arguments}}


SHORT = [message("user", "Hello")]
TURN = [message("system", "Be brief. "), message("user", " Hi there"), message("assistant", "Hello!")]
TALK = TURN + [message("user", "Why?"), message("assistant", "Because \"é\"\n")]
THOUGHT = [message("user", "1+1?"), message("assistant", "<think>\nEasy.\n</think>\n\n2"), message("user", "2+2?"),
           message("assistant", "<think>\nAlso easy.\n</think>\n\n4")]
TOOLS = [message("user", "Weather in Rom?"), message("assistant", "", tool_calls=[call("weather", {"city": "Rom", "days": 2})]),
         message("tool", "{\"sun\": true}"), message("assistant", "Sunny.")]
TWO_TOOLS = [message("system", "Use tools."), message("user", "Two?"),
             message("assistant", "Looking.", tool_calls=[call("weather", {"city": "A"}), call("weather", "{\"city\": \"B\"}")]),
             message("tool", "a"), message("tool", "b"), message("assistant", "Done.")]
PARTS = [message("user", [{"type": "text", "text": " a "}, {"type": "image"}, {"type": "text", "text": "b"}]), message("assistant", "c")]


def chat(messages, **more):
    return {"messages": messages, "tools": None, "documents": None, "add_generation_prompt": False, "bos_token": "<s>",
            "eos_token": "</s>", **more}


def conversations():
    yield "short", chat(SHORT)
    yield "short prompt", chat(SHORT, add_generation_prompt=True)
    yield "turn", chat(TURN)
    yield "talk", chat(TALK)
    yield "talk prompt", chat(TALK[:-1], add_generation_prompt=True)
    yield "thoughts", chat(THOUGHT)
    yield "thoughts prompt", chat(THOUGHT[:-1], add_generation_prompt=True)
    yield "reasoning", chat([SHORT[0], message("assistant", "Answer", reasoning_content="Because")])
    yield "no thinking", chat(SHORT, add_generation_prompt=True, enable_thinking=False)
    yield "thinking", chat(SHORT, add_generation_prompt=True, enable_thinking=True)
    yield "tools", chat(TOOLS, tools=[WEATHER])
    yield "tools prompt", chat(TOOLS[:-1], tools=[WEATHER], add_generation_prompt=True)
    yield "two tools", chat(TWO_TOOLS, tools=[WEATHER, WEATHER])
    yield "tools in system", chat(TOOLS, tools=[WEATHER], tools_in_user_message=False)
    yield "builtin tools", chat([TOOLS[0], message("assistant", "", tool_calls=[call("weather", {"city": "Rom", "unit": "C"})])], builtin_tools=["code_interpreter", "weather", "search"])
    yield "custom tools", chat(TURN[1:], custom_tools=[WEATHER], date_string="1 Jan 2025")
    yield "xml and python tools", chat(TURN, xml_tools=[WEATHER], python_tools=["def f(): pass"])
    yield "modes", chat([message("system", "Short. /no_think"), SHORT[0], message("assistant", "\nok")])
    yield "plain", chat([message("system", "Only this. /plain /think"), SHORT[0]], add_generation_prompt=True)
    yield "parts", chat(PARTS)
    yield "empty", chat([])
    yield "wrong order", chat([message("assistant", "I begin")])
    yield "content is none", chat([message("user", None)])


def floats():
    """Numbers whose shortest text is not easy to find."""
    rng = random.Random(5)
    xs = [2.0 ** e for e in range(-1074, 1024, 7)] + [10.0 ** e for e in range(-20, 23)]
    xs += [float(struct.unpack("<d", struct.pack("<Q", rng.getrandbits(63)))[0]) for _ in range(300)]
    xs += [rng.uniform(-1, 1) * 10 ** rng.randrange(-8, 20) for _ in range(200)]
    return [x for x in xs if x == x and abs(x) != float("inf")]


def cases():
    yield "floats", "{{ xs|join(' ') }}{{ xs|map('round', 3)|join(' ') }}{{ xs|map('round', -3)|join(' ') }}", {"xs": floats()}
    for line in EXPRESSIONS.strip().split("\n"):
        yield line, "{{ " + line + " }}", VALUES
    for name, template in TEMPLATES.items():
        yield name, template, VALUES
    for file in sorted(os.listdir(os.path.join(HERE, "templates"))):
        with open(os.path.join(HERE, "templates", file), encoding="utf-8") as f:
            template = f.read()
        for name, variables in conversations():
            yield f"{file} {name}", template, variables
