create table item (id bigint not null, embedding vector(128) not null);
create table question (id bigint not null, embedding vector(128) not null);
create table truth (question_id bigint not null, item_id bigint not null, distance double precision not null);
