\restrict abc
SET search_path = '';
CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT 1; SELECT 2; END;
COPY t (a, b) FROM stdin;
1	x;y
\.

SELECT 'a''b';
\unrestrict abc
